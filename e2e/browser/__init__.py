"""
The pages of `dovetail map` and `dovetail page` in a real Chromium, used as a person uses them (`make browser`).

- `clusters`: the clusters that are shown, as manifests;
- `visit`: a page in the browser, and what a person does with it;
- `journey`: the visits, each with what has to be seen then;
- `live_server`, `live_journey`: the same of a page that follows its cluster; `repair_journey` repairs it;
- `measure`: how soon the first picture is there, and how many frames a second are drawn while the map moves.
"""
