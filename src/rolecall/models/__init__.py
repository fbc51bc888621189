"""Who answers, and how their text becomes tokens."""
