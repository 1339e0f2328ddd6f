"""Properties of a crystal or a molecule from any ASE calculator: what `cliffordstf properties` computes."""
