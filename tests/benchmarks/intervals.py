"""Means with their confidence intervals, by Student's t."""

import math
import statistics


def sine_share(nu, theta):
    """Integral of cos^(nu - 1) from 0 to theta over that from 0 to pi / 2: the probability that
    |T| < sqrt(nu) tan(theta) for Student's T with nu degrees of freedom (Abramowitz and Stegun,
    26.7.1 with t = sqrt(nu) tan(theta)). Integrated by parts down to cos^0 or cos^1."""
    power = nu - 1
    partial, whole = (theta, math.pi / 2) if power % 2 == 0 else (math.sin(theta), 1.0)
    for n in range(2 + power % 2, power + 1, 2):
        partial = math.cos(theta) ** (n - 1) * math.sin(theta) / n + (n - 1) / n * partial
        whole *= (n - 1) / n
    return partial / whole


def student_t(nu, confidence=.95):
    """The t with P(|T| < t) = confidence for nu >= 1 degrees of freedom, by bisection."""
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        if sine_share(nu, middle) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(nu) * math.tan(low)


def half_width(values, confidence=.95):
    """Half the width of the confidence interval around the mean of at least two values."""
    return student_t(len(values) - 1, confidence) * statistics.stdev(values) / math.sqrt(len(values))
