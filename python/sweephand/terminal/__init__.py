"""What people see: tables, progress bars, charts, figures. Only this room knows rich."""
