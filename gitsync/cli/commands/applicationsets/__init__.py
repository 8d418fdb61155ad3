"""The command about ApplicationSets, and how it reads them."""
