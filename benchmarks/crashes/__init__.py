"""What crashes and rot may do to an index, tried; each module runs alone and prints its figures."""
