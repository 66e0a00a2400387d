"""Controllers to compare with: HPA, VPA, PID, rules, static sizes and a clairvoyant.

Only comparisons, environments and validation import them. They may use the simulator, because
they exist only to be measured in it. The product never imports a baseline.
"""
