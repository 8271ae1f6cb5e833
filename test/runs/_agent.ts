import { type AgentDefinition, defineAgent, type JobStartContext } from "agent-control-service";

type Run = (context: JobStartContext) => unknown;
type Methods = Partial<Omit<AgentDefinition["methods"], "job_start">>;

/** An agent with this handler. */
export function agentOf(
  run: Run,
  {
    methods,
    timeout,
    ...more
  }: Partial<Omit<AgentDefinition, "methods">> & { methods?: Methods; timeout?: number } = {},
): AgentDefinition {
  const job_start = {
    fields: [{ name: "n", field_type: "IntegerField" as const, default: 1 }],
    run,
    ...(timeout !== undefined && { timeout }),
  };
  return defineAgent({ name: "Worker", version: "1.0.0", ...more, methods: { job_start, ...methods } });
}

/** A promise to wait for, and its keys. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
