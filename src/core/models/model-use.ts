/** What kind of work a step does, where it says so. */
export type StepKind = "model" | "tool" | "retrieval" | "person";

/** What is recorded of a call of a model, besides its request and its answer. Absent is what nobody reported. */
export interface ModelFacts {
  /** The model that was asked for. */
  readonly requested?: string;
  /** The model that answered. */
  readonly name?: string;
  readonly provider?: string;
  /** All tokens of the request, cached ones included. */
  readonly input_tokens?: number;
  /** All tokens of the answer, reasoning included. */
  readonly output_tokens?: number;
  /** Tokens of the request that the provider read from its cache, and those that it wrote there. */
  readonly cached_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly reasoning_tokens?: number;
  readonly finish_reason?: string;
  /** Milliseconds from the start of the attempt to its first token. */
  readonly first_token_ms?: number;
  /** The provider's id of the answer. */
  readonly response_id?: string;
}

/** What the calls of one model by one agent on one day used: those of some of its jobs. */
export interface ModelUse {
  readonly id: string;
  /** `YYYY-MM-DD`, UTC. */
  readonly day: string;
  /** Slug of the agent. */
  readonly agent: string;
  readonly model: string;
  /** Attempts, and how many of them failed. */
  readonly calls: number;
  readonly failed: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cached_tokens: number;
  readonly reasoning_tokens: number;
  readonly cost: number;
}
