/** A mistake in an agent's definition, found when the service is made. */
export class AgentError extends Error {
  override readonly name = "AgentError";
  constructor(agent: string, problem: string) {
    super(`Agent "${agent}": ${problem}`);
  }
}
