"""Running a recorded search again: real policies, real database, and stored answers in place of models and judge."""
