"""What people see: reports, tables and live progress, as rich text, plain text, JSON, or not at all."""
