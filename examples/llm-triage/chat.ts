import * as v from "valibot";

/** The endpoint of a model: any that supports the chat completions format. */
export interface ChatEndpoint {
  /** Base URL, such as `http://127.0.0.1:11434/v1`. */
  readonly url: string;
  /** Sent as a bearer token if set. */
  readonly key: string | undefined;
  readonly model: string;
}

export interface ChatAnswer<T> {
  readonly value: T;
  readonly tokens: number;
}

const CompletionSchema = v.object({
  choices: v.pipe(v.array(v.object({ message: v.object({ content: v.string() }) })), v.minLength(1)),
  usage: v.optional(v.object({ total_tokens: v.number() })),
});

/** Asks a model for JSON that matches a schema; throws if the answer is anything else. */
export async function askForJson<S extends v.GenericSchema>(
  endpoint: ChatEndpoint,
  request: {
    readonly system: string;
    readonly user: string;
    readonly schema: S;
    readonly signal: AbortSignal;
  },
): Promise<ChatAnswer<v.InferOutput<S>>> {
  const response = await fetch(`${endpoint.url.replace(/\/+$/, "")}/chat/completions`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(endpoint.key && { authorization: `Bearer ${endpoint.key}` }),
    },
    body: JSON.stringify({
      model: endpoint.model,
      temperature: 0,
      response_format: { type: "json_object" },
      messages: [
        { role: "system", content: request.system },
        { role: "user", content: request.user },
      ],
    }),
    signal: request.signal,
  });
  const body = await response.text();
  if (!response.ok) throw new Error(`The model endpoint answered ${response.status}: ${body.slice(0, 200)}`);
  const completion = v.parse(CompletionSchema, JSON.parse(body));
  const content = completion.choices[0]!.message.content.replace(/^```(json)?|```$/g, "");
  return { value: v.parse(request.schema, JSON.parse(content)), tokens: completion.usage?.total_tokens ?? 0 };
}
