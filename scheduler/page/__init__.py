"""
The fleet as a page: a document that one pure function makes, the front end that shows it, and its server.

- `fleet_map`: the document `FleetMap`, in columns, so that 40,000 devices are a few hundred kilobytes (`map_of`);
- `map_page`: its page, with the document or without one; `html_file`: one HTML file with a front end in it;
- `report_page`: the page of `dovetail report`;
- `live_fleet`, `visible_part`: the fleet as it was last read, and the part of it that a caller sees;
- `decision_answers`, `history_listing`: what the running scheduler decided, and what happened to pods;
- `fit_questions`, `fit_process`, `fit_answer`: whether pasted manifests would fit, decided in a process with limits;
- `page_server`: the server of `dovetail page`;
- `bundle`: the built front end, which ships; `front`: its sources in TypeScript, which do not (`make front`).
"""
