"""How many of the true neighbours a search finds: measured, modelled and estimated from distances."""
