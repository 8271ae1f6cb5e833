/** A response with a line of JSON for each value; the next one is made when the client has read those before. */
export function ndjson(values: AsyncGenerator<unknown, void>): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await values.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(`${JSON.stringify(value)}\n`));
    },
    cancel: async () => void (await values.return()),
  });
  const headers = { "content-type": NDJSON, "cache-control": "no-store" };
  return new Response(body, { headers });
}

export const NDJSON = "application/x-ndjson";
