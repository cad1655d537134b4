"""From a model's answer to a source text, or to a reason why there is none."""
