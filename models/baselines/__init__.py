"""Controllers to compare with: HPA, VPA, PID, static sizes, and what teams build of them.

Only comparisons, environments and validation import them. They may use the simulator, because
they exist only to be measured in it. The product never imports a baseline.
"""
