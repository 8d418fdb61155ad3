"""The vocabulary of refusals that kinds, custom resources and admission share."""
