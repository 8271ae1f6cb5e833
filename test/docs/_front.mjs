// Runs in a network of its own, and leads its ports to Unix sockets and other ports: by the name of the host where it speaks
// TLS. The argument is a list of { port, to } with `to` by host name; "*" is any.
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { createServer as createTlsServer } from "node:tls";

const { ports, key, cert } = JSON.parse(process.argv[2]);
const pipe = (socket, target) => {
  const other = connect(target);
  socket.pipe(other).pipe(socket);
  for (const [one, its] of [
    [socket, other],
    [other, socket],
  ])
    one.on("error", () => its.destroy());
};
await Promise.all(
  ports.map(({ port, to, tls }) => {
    const server = tls
      ? createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, (socket) =>
          pipe(socket, to[socket.servername] ?? to["*"]),
        )
      : createServer((socket) => pipe(socket, to["*"]));
    server.on("tlsClientError", () => undefined);
    return new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  }),
);
console.log("open");
