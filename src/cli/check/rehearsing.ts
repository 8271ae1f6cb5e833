import { AgentProcesses } from "../../core/runs/isolation/agent-processes.ts";
import { forbidNetwork } from "../../core/runs/isolation/no-network.ts";

/**
 * Gives records to the agents of a controller: without the network, and without letting a handler end this process, which
 * would hide the verdicts of all other jobs.
 */
export async function whileRehearsing<T>(
  controller: string,
  /** Data folders, which they cannot read. */
  hidden: readonly string[],
  work: (processes: AgentProcesses) => Promise<T>,
): Promise<T> {
  const allow = forbidNetwork();
  const { exit } = process;
  process.exit = (code) => {
    throw new Error(`The handler ends the process, with exit code ${code ?? process.exitCode ?? 0}`);
  };
  const processes = new AgentProcesses(controller, { isOffline: true, hidden });
  try {
    return await work(processes);
  } finally {
    process.exit = exit;
    allow();
    processes.close();
  }
}
