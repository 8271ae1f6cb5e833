// Compiled by test/compilers.test.ts: what must not compile is after an expected error.

import type { CaseHandle } from "agent-control-service";
import { durableTools } from "agent-control-service/ai";
import { tool } from "ai";
import { z } from "zod";

declare const item: CaseHandle;
const order = tool({
  inputSchema: z.object({ id: z.string() }),
  execute: async ({ id }) => ({ id, total: 1 }),
});

const tools = durableTools(item, { order, refund: { ...order, approval: ({ id }) => id.length > 3 } });
tools.order.execute;
durableTools(item, { order, refund: { ...order, approval: async ({ id }) => `Refund ${id}?`, steps: true } });
durableTools(item, { refund: { ...order, approval: true } });
durableTools(item, { refund: { ...order, approval: ({ id }: { id: string }) => id.length > 3 } });

// @ts-expect-error: a misspelled option
durableTools(item, { order, refund: { ...order, approvals: true } });
// @ts-expect-error: another one
durableTools(item, { refund: { ...order, approve: true } });
// @ts-expect-error: a misspelled `steps`
durableTools(item, { refund: { ...order, step: true } });
// @ts-expect-error: a branch without a value
durableTools(item, { order, refund: { ...order, approval: () => undefined } });
// @ts-expect-error: the same, of a tool alone
durableTools(item, { refund: { ...order, approval: () => undefined } });
// @ts-expect-error: an input that the tool does not have
durableTools(item, { order, refund: { ...order, approval: ({ amount }) => amount > 100 } });
// @ts-expect-error: the same, written out
durableTools(item, { refund: { ...order, approval: ({ amount }: { amount: number }) => amount > 100 } });
// @ts-expect-error: no rule
durableTools(item, { refund: { ...order, approval: 1 } });
