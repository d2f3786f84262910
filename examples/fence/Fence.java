import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import javax.sql.DataSource;

/**
 * Saves how far a topic has been read, and refuses an old fencing token. It is for PostgreSQL and SQLite, by JDBC. The
 * tables are those of postgresql.sql and fence.go beside it.
 */
public final class Fence {
    private static final String CHECK =
            "INSERT INTO fences AS f (fence_key, exclusive_token, shared_token) VALUES (?, ?, 0) "
                    + "ON CONFLICT (fence_key) DO UPDATE SET exclusive_token = excluded.exclusive_token "
                    + "WHERE f.exclusive_token <= excluded.exclusive_token "
                    + "AND f.shared_token <= excluded.exclusive_token";

    private static final String SAVE =
            "INSERT INTO offsets (topic, position) VALUES (?, ?) "
                    + "ON CONFLICT (topic) DO UPDATE SET position = excluded.position";

    private Fence() {}

    /** Another owner has followed. To try again is of no use. */
    public static final class OldTokenException extends Exception {
        private static final long serialVersionUID = 1L;

        OldTokenException(String key, long token) {
            super("token " + token + " of " + key + " is old: another owner has followed");
        }
    }

    /** Passes a token in the transaction of its work. Call it first, and roll back when it throws. */
    public static void check(Connection connection, String key, long token) throws SQLException, OldTokenException {
        try (PreparedStatement statement = connection.prepareStatement(CHECK)) {
            statement.setString(1, key);
            statement.setLong(2, token);
            if (statement.executeUpdate() != 1) {
                throw new OldTokenException(key, token);
            }
        }
    }

    /** Saves how far a topic has been read. Token and work are in one transaction. */
    public static void save(DataSource database, String topic, long position, long token)
            throws SQLException, OldTokenException {
        try (Connection connection = database.getConnection()) {
            connection.setAutoCommit(false);
            try {
                check(connection, "topics/" + topic, token);
                try (PreparedStatement statement = connection.prepareStatement(SAVE)) {
                    statement.setString(1, topic);
                    statement.setLong(2, position);
                    statement.executeUpdate();
                }
                connection.commit();
            } catch (SQLException | OldTokenException failure) {
                connection.rollback();
                throw failure;
            }
        }
    }
}
