"""HTML reports: layout and charts."""
