"""The JSON API below ``/api/v1``: what pages show, for programs and the command line."""
