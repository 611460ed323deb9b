"""The load that does what a profile of uperf says."""
