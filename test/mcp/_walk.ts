import { type Address, connect } from "./_client.ts";

export type Task = Readonly<Record<string, unknown>> & { readonly status: string };
export const requestsOf = (task: Task) =>
  Object.entries(task.inputRequests as Record<string, { params: unknown }>);
export const keyOf = (task: Task) => requestsOf(task)[0]![0];
export const accept = (content: object) => ({ action: "accept", content });

/** Each request goes to the next address; before it, `between` happens. */
export async function walk(next: () => Promise<Address>): Promise<Task[]> {
  const client = async () => connect(await next());
  const id = await (await client()).start("refunds", { order: "A1" });
  const first = await (await client()).settled(id);
  await (await client()).update(id, { [keyOf(first)]: accept({ approved: true, reason: "late" }) });
  const second = await (await client()).settled(id);
  await (await client()).update(id, { [keyOf(second)]: accept({ amount: 5 }) });
  const completed = await (await client()).settled(id);
  const other = await (await client()).start("refunds", { order: "A2" });
  await (await client()).cancel(other);
  const cancelled = await (await client()).settled(other);
  return [first, second, completed, cancelled];
}

/** What the walk finds. */
export const WALKED = [
  { status: "input_required", statusMessage: "Refund A1?" },
  { status: "input_required", statusMessage: "How much?" },
  {
    status: "completed",
    result: {
      isError: false,
      structuredContent: {
        result: { message: "Refunded 5", first: { approved: true, reason: "late", details: null } },
        cases: [{ name: "Refund of A1", status: "completed" }],
      },
    },
  },
  { status: "cancelled" },
];
