"""The fused order, improved as far as the allowance carries."""
