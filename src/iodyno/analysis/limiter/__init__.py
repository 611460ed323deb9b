"""The limiter: what stops the rate from rising, by evidence (`verdict`) and by experiment (`elasticity`)."""
