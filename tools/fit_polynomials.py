#!/usr/bin/env python3
"""Fits the polynomials of src/rng/normal.h and prints them as C constants.

Each function is written as its exact leading terms plus a correction polynomial; the correction is fitted at
Chebyshev nodes (near-minimax), its coefficients are rounded to float, and the error of the whole is measured.
Needs numpy. Only for people who want to change the degrees: the constants are in the header.
"""
import numpy as np


def fit(name, correction, weight, low, high, degree):
    nodes = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(np.pi * (np.arange(2000) + 0.5) / 2000)
    nodes = nodes[np.abs(nodes) > 1e-3 * (high - low)]
    powers = np.vander(nodes, degree + 1, increasing=True) * weight(nodes)[:, None]
    chebyshev = 1.0 / np.sqrt(np.maximum((nodes - low) * (high - nodes), 1e-9))
    scale = np.sqrt(chebyshev)
    solution, *_ = np.linalg.lstsq(powers * scale[:, None], correction(nodes) * weight(nodes) * scale, rcond=None)
    rounded = solution.astype(np.float32)
    error = np.max(np.abs((np.polyval(rounded[::-1].astype(float), nodes) - correction(nodes)) * weight(nodes)))
    print(f"/* {name}: highest power first; error {error:.1e} */")
    print(", ".join(f"{c:.9g}f" for c in rounded[::-1]))


# log(1+f) = f - f^2/2 + f^3 P(f) on [sqrt(1/2)-1, sqrt(2)-1]; the weight makes the error relative to log(1+f) ~ f.
fit("log", lambda f: (np.log1p(f) - f + f * f / 2) / f**3, lambda f: f**2, np.sqrt(0.5) - 1, np.sqrt(2) - 1, 7)
# sin(a) = a + a z S(z), cos(a) = 1 - z/2 + z^2 C(z), z = a^2 in [0, (pi/4)^2].
quarter = (np.pi / 4) ** 2
fit("sin", lambda z: (np.sin(np.sqrt(z)) / np.sqrt(z) - 1) / z, lambda z: z, 1e-6, quarter, 2)
fit("cos", lambda z: (np.cos(np.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2, 1e-6, quarter, 2)
