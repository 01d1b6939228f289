"""
The page of `dovetail map` in a real Chromium, used as a person uses it, and looked at in pictures (`make browser`).

- `clusters`: the clusters that are shown, as manifests;
- `visit`: a page in the browser, and what a person does with it;
- `journey`: the visits, each with what has to be seen then;
- `measure`: how soon the first picture is there, and how many frames a second are drawn while the map moves.
"""
