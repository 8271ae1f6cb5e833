/** Sends one message to an endpoint that speaks the OpenAI chat completions format. */
async function send(
  message: string,
  key: string,
  options: { stream: boolean; signal: AbortSignal },
): Promise<Response> {
  const response = await fetch(`${process.env.LLM_URL ?? "https://api.openai.com/v1"}/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({
      model: process.env.LLM_MODEL ?? "gpt-4.1-mini",
      messages: [{ role: "user", content: message }],
      stream: options.stream,
    }),
    signal: options.signal,
  });
  if (!response.ok) throw new Error(`The model answered ${response.status}`);
  return response;
}

/** The model's whole answer. Without a key, a stand-in returns one. */
export async function complete(
  message: string,
  key: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  if (!key) return standIn(message);
  const response = await send(message, key, { stream: false, signal });
  const { choices } = (await response.json()) as { choices: [{ message: { content: string } }] };
  return choices[0].message.content;
}

/** The model's answer as server-sent events, word by word. Without a key, a stand-in sends them. */
export async function openStream(
  message: string,
  key: string | undefined,
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  if (key) return (await send(message, key, { stream: true, signal })).body!;
  const words = standIn(message).split(/(?<= )/);
  return new ReadableStream<string>({
    pull(controller) {
      const word = words.shift();
      const data =
        word === undefined ? "[DONE]" : JSON.stringify({ choices: [{ delta: { content: word } }] });
      controller.enqueue(`data: ${data}\n\n`);
      if (word === undefined) controller.close();
    },
  }).pipeThrough(new TextEncoderStream());
}

function standIn(message: string): string {
  return `(stand-in) You wrote: ${message}`;
}
