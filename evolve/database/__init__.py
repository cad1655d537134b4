"""The database: the only record of a run. Schema, migrations and the storage contract; no policy."""
