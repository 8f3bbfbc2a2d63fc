"""From a patch file to verified bytes: plan, diff, apply, revert."""
