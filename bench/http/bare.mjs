// What an empty service stands on, alone: one route, valibot loaded.
import { H3, serve } from "h3";
import * as v from "valibot";

const app = new H3({ silent: true });
app.get("/health", () => ({ isText: v.is(v.string(), "") }));
const server = serve(app, { port: 0, hostname: "127.0.0.1", silent: true, gracefulShutdown: false });
await server.ready();
process.send({ listening: true });
setTimeout(() => {
  process.send({ rss: process.memoryUsage().rss });
  void server.close(true);
  process.disconnect();
}, 2000);
