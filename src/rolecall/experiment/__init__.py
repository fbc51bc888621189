"""What a user gave, opened: tasks × models become pairs with fitted requests, previews and lint findings."""
