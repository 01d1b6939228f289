"""
The fleet as a page: a document that one pure function makes, and the front end that shows it.

- `fleet_map`: the document `FleetMap`, in columns, so that 40,000 devices are a few hundred kilobytes (`map_of`);
- `map_page`: one HTML file with the document and the front end in it;
- `bundle`: the built front end, which ships; `front`: its sources in TypeScript, which do not (`make front`).
"""
