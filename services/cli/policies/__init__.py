"""Commands that train policies and judge them."""
