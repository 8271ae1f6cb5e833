import type { AgentDefinition, CaseHandle, JobHandle } from "agent-control-service";
import type { Plugin, PluginContext } from "agent-control-service/plugin";
import type { Store, StoreFactory } from "agent-control-service/store";

/** What code on a page may use without saying where it comes from. */
declare global {
  const agents: AgentDefinition[];
  const auditor: AgentDefinition;
  const hello: AgentDefinition;
  const greetings: Plugin;
  const job: JobHandle;
  const get: PluginContext["get"];
  const store: Store;
  const openMyStore: StoreFactory;
  // biome-ignore lint/suspicious/noExplicitAny: these represent the reader's code
  type Yours = any;
  const item: CaseHandle & { readonly name: string };
  const items: readonly (CaseHandle & { readonly name: string })[];
  const id: string;
  const entries: readonly unknown[];
  const audit: Yours;
  const readInvoices: Yours;
  const erp: Yours;
  const bank: Yours;
  const download: Yours;
  const send: Yours;
  const reviewer: AgentDefinition;
  const url: string;
  const headers: Record<string, string>;
  const body: string;
  const message: string;
  const tokensOf: (message: string, signal: AbortSignal) => AsyncIterable<string>;
  const save: Yours;
  const host: string;
  const image: string;
  const name: string;
  const user: string;
  const password: string;
  const variables: readonly string[];
  const token: string;
  const create: Yours;
  const tools: import("agent-control-service/deploy").DeployTools;
  const cwd: string;
  const one: Yours;
  const two: Yours;
  const platform: Yours;
  const target: Yours;
  const close: Yours;
  const nextChange: Yours;
}
