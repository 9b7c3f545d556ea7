"""The reference trainer: SAMPO and the policy-gradient design space around it."""
