"""Every name that users type, where what it names lives, and a line about it. Importing this loads none of that."""
