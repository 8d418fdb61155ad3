"""Risk rules: tables of rows that give each change a class and a reason."""
