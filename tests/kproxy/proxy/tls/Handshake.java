// Shakes hands over TLS as a Kafka client would: a trust store, and the host name checked.
//
//     java Handshake.java STORE PASSWORD PORT HOST...
//
// Prints a line for each host: "HOST ok" or what went wrong.

import java.io.InputStream;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;
import java.net.Socket;

public class Handshake {
    public static void main(String[] arguments) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(Path.of(arguments[0]))) {
            store.load(in, arguments[1].toCharArray());
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(store);
        int port = Integer.parseInt(arguments[2]);
        for (int each = 3; each < arguments.length; each++) {
            String host = arguments[each];
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            Socket plain = new Socket(InetAddress.getLoopbackAddress(), port);
            try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(plain, host, port, true)) {
                SSLParameters parameters = socket.getSSLParameters();
                parameters.setEndpointIdentificationAlgorithm("https");
                socket.setSSLParameters(parameters);
                socket.startHandshake();
                socket.getOutputStream().write('?');
                System.out.println(host + " " + new String(socket.getInputStream().readAllBytes()));
            } catch (java.io.IOException error) {
                System.out.println(host + " " + error.getMessage());
            }
        }
    }
}
