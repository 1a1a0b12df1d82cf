"""One module for each format that is read, and the table that chooses among them."""
