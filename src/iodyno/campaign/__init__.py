"""Executes a design: preflight, calibration, trials, ledger. It never interprets what it stores."""
