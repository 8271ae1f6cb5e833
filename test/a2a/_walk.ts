import { type Address, type Binding, connect, messageOf, send, shown } from "./_client.ts";

/** Each request goes to the next address; before it, that one is made ready. */
export async function walk(next: () => Promise<Address>, binding: Binding) {
  const client = async () => connect(await next(), binding);
  const task = (id: string) => ({ tenant: "", id });
  const settled = async (id: string) => {
    for (;;) {
      const found = await (await client()).getTask(task(id));
      if (!/SUBMITTED|WORKING/.test(shown(found).state)) return shown(found);
    }
  };
  const { id } = await send(await client(), messageOf("m1", [{ text: "A1" }]), true);
  const repeated = await send(await client(), messageOf("m1", [{ text: "A1" }]), true);
  const first = await settled(id);
  await send(await client(), messageOf("m2", [{ text: "yes" }], id), true);
  const second = await settled(id);
  // Sent again, it is no answer to the second question.
  await send(await client(), messageOf("m2", [{ text: "yes" }], id), true);
  await send(await client(), messageOf("m3", [{ data: { amount: 5 } }], id), true);
  const completed = await settled(id);
  const other = await send(await client(), messageOf("m4", [{ data: { order: "A2" } }]), true);
  await (await client()).cancelTask({ ...task(other.id), metadata: undefined });
  const cancelled = await settled(other.id);
  return { isSame: repeated.id === id, first, second, completed, cancelled };
}

/** What the walk finds. */
export const WALKED = {
  isSame: true,
  first: { state: "TASK_STATE_INPUT_REQUIRED", says: ["Refund A1?", { case: "Refund of A1" }] },
  second: { state: "TASK_STATE_INPUT_REQUIRED", says: ["How much?", { schema: { required: ["amount"] } }] },
  completed: {
    state: "TASK_STATE_COMPLETED",
    artifacts: {
      "Refund of A1": { first: { approved: true }, second: { amount: 5 } },
      Result: { message: "Refunded 5" },
    },
  },
  cancelled: { state: "TASK_STATE_CANCELED" },
};
