"""A help desk that answers in the house's words: the prompter that the application and its tuning share."""

from rolecall import ChatPrompter

helpdesk = ChatPrompter('You answer questions about our shop. Say nothing else.', system='')
