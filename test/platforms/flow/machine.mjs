// Loaded into a service before all else (node --import): hosts that only a machine of a cloud reaches lead to emulators.
// Where it listens is written down: a standby itself says so only once it has the store.
import { subscribe } from "node:diagnostics_channel";
import { writeFileSync } from "node:fs";

const HOSTS = JSON.parse(process.env.MACHINE_HOSTS ?? "{}");
const { fetch: request } = globalThis;

globalThis.fetch = async (input, init) => {
  const url = new URL(input instanceof Request ? input.url : input);
  const base = HOSTS[url.host];
  return base === undefined ? request(input, init) : request(`${base}${url.pathname}${url.search}`, init);
};

subscribe("tracing:net.server.listen:asyncEnd", ({ server }) => {
  const { port } = server.address();
  if (port !== undefined) writeFileSync(process.env.LISTENING, `http://127.0.0.1:${port}`);
});
