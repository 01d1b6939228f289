// Documents as they stand in a page and in the events of its server: gzip in base64.
export async function unpacked<Document>(packed: string): Promise<Document> {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as Document;
}
