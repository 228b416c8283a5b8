"""Pages of HTML: layout and charts."""
