/** The extension of the protocol for calls that take long. */
export const TASKS = "io.modelcontextprotocol/tasks";
/** Where a call has the key that makes its repetition harmless. */
export const IDEMPOTENCY_KEY = "agent-control-service/idempotency-key";
