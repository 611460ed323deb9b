"""Files of a campaign: written once by the campaign, read by the analysis. Raw is append-only."""
