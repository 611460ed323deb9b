"""The panels of a trial: heat maps, histograms and lines over one axis of time, and the data behind them for the script."""
